/** Keeps returned books for the next reader in the queue. */
export class Reservations {
  private readonly queues = new Map<string, string[]>();
  private readonly held = new Map<string, string>();

  constructor(private readonly holdMs: number) {}

  reserve(isbn: string, reader: string): void {
    const queue = this.queues.get(isbn) ?? [];
    if (queue.includes(reader)) {
      throw new Error(`${reader} waits for ${isbn} already`);
    }
    this.queues.set(isbn, [...queue, reader]);
  }

  /** Call when the book is back; returns the reader it is kept for. */
  hold(isbn: string): string | undefined {
    const [next, ...rest] = this.queues.get(isbn) ?? [];
    this.queues.set(isbn, rest);
    if (next === undefined) {
      this.held.delete(isbn);
      return undefined;
    }
    this.held.set(isbn, next);
    setTimeout(() => {
      if (this.held.get(isbn) === next) {
        this.hold(isbn);
      }
    }, this.holdMs);
    return next;
  }

  heldFor(isbn: string): string | undefined {
    return this.held.get(isbn);
  }
}
