export interface Book {
  isbn: string;
  title: string;
}

export interface Loan {
  isbn: string;
  reader: string;
  due: Date;
}

export type Clock = () => Date;
