import { Option } from "commander";
import type { HandSettlement } from "../../../../domain/billing/repair/decideHandSettlement.ts";
import { parseDocument } from "../../../arguments.ts";

export type DocumentOptions = { readonly invoiceItem?: string; readonly creditNote?: string };

export const invoiceItemOption = (): Option =>
  new Option("--invoice-item <reference>", "invoice item that billed the usage")
    .argParser(parseDocument)
    .conflicts("creditNote");

export const creditNoteOption = (): Option =>
  new Option("--credit-note <reference>", "credit note that returned the usage").argParser(
    parseDocument,
  );

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
