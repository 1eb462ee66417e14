export type Send = (reader: string, text: string) => Promise<void>;

const TRIES = 3;

/** Sends a notice; tries again after `pauseMs` when the mail server refuses it. */
export async function sendNotice(send: Send, reader: string, text: string, pauseMs: number): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    try {
      await send(reader, text);
      return attempt;
    } catch (error) {
      if (attempt === TRIES) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
