import { z } from "zod";

const MAXIMUM_PAGE = 999_999_999;

/** A whole number in a query. The default is repeated as metadata, because JSON Schema generation drops that of a transform. */
const wholeNumber = ({
  maximum,
  fallback,
  description,
}: {
  readonly maximum: number;
  readonly fallback: number;
  readonly description: string;
}) =>
  z
    .unknown()
    .meta({ type: "integer", minimum: 1, maximum, default: fallback, description })
    .transform((given, context): number => {
      const value = typeof given === "string" && /^\d{1,9}$/u.test(given) ? Number(given) : 0;
      if (value < 1 || value > maximum) {
        context.addIssue({ code: "custom", message: `must be an integer from 1 to ${maximum}` });
        return z.NEVER;
      }
      return value;
    })
    .default(fallback)
    .meta({ description });

export const page = () =>
  wholeNumber({ maximum: MAXIMUM_PAGE, fallback: 1, description: "Page number, from 1." });

export const pageSize = (maximum: number) =>
  wholeNumber({ maximum, fallback: 20, description: "Number of items on a page." });

/** A number of items or pages in a response. */
export const total = (description: string) =>
  z
    .int()
    .min(0)
    .meta({ description, examples: [1] });
