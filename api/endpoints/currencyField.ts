import { z } from "zod";

const MUST_BE = "must be USD";

/** The currency of a donation, which is always the same: a donation in another one must not be recorded as dollars. */
export const currencyField = () =>
  z
    .string({ error: MUST_BE })
    .regex(/^usd$/iu, MUST_BE)
    // All that it can say is known, and a repeated request may leave it out.
    .transform((): undefined => undefined)
    .optional()
    .meta({ description: "Always USD, which is also the default.", examples: ["USD"] });
