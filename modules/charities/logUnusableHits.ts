import type { Logger } from "pino";
import type { UnusableHits } from "./remote/readHits.ts";

/** Returns a function that logs which records of a charity search were left out. */
export const logUnusableHits =
  (logger: Logger) =>
  (unusable: UnusableHits): void =>
    logger.warn(unusable, "a charity provider listed charities that cannot be used");
