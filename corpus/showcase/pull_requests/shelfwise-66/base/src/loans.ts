export const LOAN_DAYS = 21;
export const PENCE_PER_DAY = 25;

export function dueDate(from: Date): Date {
  return new Date(from.getTime() + LOAN_DAYS * 24 * 60 * 60 * 1000);
}

export function daysOverdue(due: Date, returned: Date): number {
  const late = returned.getTime() - due.getTime();
  return late <= 0 ? 0 : Math.ceil(late / (24 * 60 * 60 * 1000));
}

export function finePence(due: Date, returned: Date): number {
  return daysOverdue(due, returned) * PENCE_PER_DAY;
}
