import { daysOverdue, finePence } from "./loans";
import type { Book, Loan } from "./types";

const pounds = (pence: number) => `£${(pence / 100).toFixed(2)}`;

export function renderReceipt(book: Book, loan: Loan, returned: Date): string {
  const days = daysOverdue(loan.due, returned);
  const lines = [
    "SHELFWISE",
    `${book.title} (${book.isbn})`,
    `Reader: ${loan.reader}`,
    `Due: ${loan.due.toISOString().slice(0, 10)}`,
    `Returned: ${returned.toISOString().slice(0, 10)}`,
  ];
  if (days > 0) {
    lines.push(`Days late: ${days}`, `Fine: ${pounds(finePence(loan.due, returned))}`);
  }
  return lines.join("\n");
}
