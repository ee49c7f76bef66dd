export type AccountType = "organization" | "store";

/** `live` records come from production keys and are billed; `test` records never leave the built-in ledger. */
export type Mode = "live" | "test";

/** An impact action; also the meter that its usage is reported to. */
export type Kind = "tree" | "bottle";
