import { dueDate, finePence } from "./loans";
import type { Book, Clock, Loan } from "./types";

export class Library {
  private readonly books = new Map<string, Book>();
  private readonly loans = new Map<string, Loan>();

  constructor(private readonly clock: Clock = () => new Date()) {}

  add(book: Book): void {
    this.books.set(book.isbn, book);
  }

  available(): Book[] {
    return [...this.books.values()].filter((book) => !this.loans.has(book.isbn));
  }

  async lend(isbn: string, reader: string): Promise<Loan> {
    if (!this.books.has(isbn)) {
      throw new Error(`no book ${isbn}`);
    }
    if (this.loans.has(isbn)) {
      throw new Error(`${isbn} is lent already`);
    }
    const loan = { isbn, reader, due: dueDate(this.clock()) };
    this.loans.set(isbn, loan);
    return loan;
  }

  /** Takes the book back and returns the fine in pence. */
  async giveBack(isbn: string): Promise<number> {
    const loan = this.loans.get(isbn);
    if (!loan) {
      throw new Error(`${isbn} is not lent`);
    }
    this.loans.delete(isbn);
    return finePence(loan.due, this.clock());
  }
}
