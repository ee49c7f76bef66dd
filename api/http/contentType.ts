const PARAMETER =
  /[ \t]*;[ \t]*(?:([!#$%&'*+.^_`|~\w-]+)[ \t]*=[ \t]*([!#$%&'*+.^_`|~\w-]+|"(?:[^"\\]|\\.)*"))?/uy;

const unquote = (value: string): string =>
  value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/gu, "$1") : value;

/**
 * Returns the media type and its parameters with lower-case names, as pairs, because a name may be repeated; null if the
 * header is malformed. Empty parameters are allowed. Takes time in proportion to the header's length.
 */
const parseContentType = (
  header: string,
): {
  readonly type: string;
  readonly parameters: readonly (readonly [string, string])[];
} | null => {
  const [type = ""] = header.split(";", 1);
  const parameters: (readonly [string, string])[] = [];
  let position = type.trimEnd().length;
  const end = header.trimEnd().length;
  while (position < end) {
    PARAMETER.lastIndex = position;
    const found = PARAMETER.exec(header);
    if (found === null) {
      return null;
    }
    const [whole, name, value] = found;
    if (name !== undefined && value !== undefined) {
      parameters.push([name.toLowerCase(), unquote(value)]);
    }
    position += whole.length;
  }
  return { type: type.trim().toLowerCase(), parameters };
};

/** Returns whether a Content-Type is `application/json` in UTF-8, in any spelling and with any other parameters. */
export const isJsonInUtf8 = (header: string): boolean => {
  const parsed = parseContentType(header);
  return (
    parsed !== null &&
    parsed.type === "application/json" &&
    parsed.parameters.every(([name, value]) => name !== "charset" || /^utf-?8$/iu.test(value))
  );
};
