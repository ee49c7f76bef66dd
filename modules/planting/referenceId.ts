import { hash } from "node:crypto";
import { IMPORTED_PARTNER } from "./order.rules.ts";

/** What a reference of a partner, or of the simulation, identifies. */
export type ReferenceKind =
  | "allocation"
  | "field_update"
  | "planting_session"
  | "planting_site"
  | "order"
  | "tree_order";

/** 52 bits, which a safe integer holds. */
const HEXADECIMAL_DIGITS = 13;

/**
 * Returns the integer that evidence shows for a partner's reference: the other system's if the order was imported, otherwise
 * one that follows from the reference. So a session has one id in the evidence of all its trees, and no table of ids.
 */
export const referenceId = (partner: string, kind: ReferenceKind, reference: string): number => {
  const imported = partner === IMPORTED_PARTNER ? /\/(\d{1,16})$/u.exec(reference)?.[1] : undefined;
  if (imported !== undefined && Number.isSafeInteger(Number(imported))) {
    return Number(imported);
  }
  const digest = hash("sha256", JSON.stringify([partner, kind, reference]), "hex");
  return Number.parseInt(digest.slice(0, HEXADECIMAL_DIGITS), 16);
};
