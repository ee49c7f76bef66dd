import type { HandSettlement } from "../../../../domain/billing/decideHandSettlement.ts";

export type DocumentOptions = { readonly invoiceItem?: string; readonly creditNote?: string };

/** Returns the document that an operator names, or null. Commander accepts only one of the two. */
export const readDocument = ({
  invoiceItem,
  creditNote,
}: DocumentOptions): HandSettlement | null => {
  if (invoiceItem !== undefined) {
    return { kind: "invoice_item", reference: invoiceItem };
  }
  return creditNote === undefined ? null : { kind: "credit_note", reference: creditNote };
};
