import { z } from "zod";

/** A body with these fields and no others. */
export const bodyObject = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.strictObject(shape, {
    error: (issue) =>
      issue.code === "invalid_type" ? "the body must be a JSON object" : undefined,
  });

/** Query parameters: each at most once, no others. */
export const queryObject = <Shape extends z.ZodRawShape>(shape: Shape) => z.strictObject(shape);
