import type { CommonQueryMethods } from "slonik";
import type { BillingContext } from "../billing/context.ts";
import type { Context } from "../../runtime/context.ts";
import type { RegistrationWriter } from "./createRegistrationWriter.ts";

export type RegistrationContext = BillingContext & {
  readonly writer: RegistrationWriter;
};

export type ListContext = Context & {
  /** Connections for the pages of lists, which may read many records. */
  readonly lists: CommonQueryMethods;
  /** For the pages after the first of a list, if they yield to recording. */
  readonly bulkLists?: CommonQueryMethods;
};
