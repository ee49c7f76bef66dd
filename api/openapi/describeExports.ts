import { z } from "zod";
import { EXPORT_FORMATS, formatHead, formatRow } from "../../runtime/formatRows.ts";

/** Describes the other formats of a list by the first row of its JSON example. */
export const describeExports = (
  columns: readonly string[] | undefined,
  example: unknown,
): Readonly<Record<string, unknown>> => {
  if (columns === undefined) {
    return {};
  }
  const [row] = z
    .record(z.string(), z.unknown())
    .transform((fields) => Object.values(fields).find(Array.isArray))
    .pipe(z.tuple([z.looseObject({})], z.looseObject({})))
    .parse(example);
  return Object.fromEntries(
    (["csv", "ndjson"] as const).map((format) => [
      EXPORT_FORMATS[format].mediaType,
      {
        schema: { type: "string" },
        example: `${formatHead(format, columns)}${formatRow(format, columns, row)}`,
      },
    ]),
  );
};
