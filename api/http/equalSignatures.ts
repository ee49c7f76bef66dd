import { timingSafeEqual } from "node:crypto";

/** Compares a signature with the expected one. The time does not say how much of it is right. */
export const equalSignatures = (given: string, expected: string): boolean => {
  const [one, two] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === two.length && timingSafeEqual(one, two);
};
