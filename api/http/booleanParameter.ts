import { z } from "zod";

/** A query parameter that is `true` or `false`. */
export const booleanParameter = () =>
  z
    .enum(["true", "false"], { error: "must be true or false" })
    // Generated clients have a boolean for it.
    .meta({ type: "boolean", enum: undefined });
