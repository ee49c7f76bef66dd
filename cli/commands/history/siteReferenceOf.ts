import { hash } from "node:crypto";
import { reference } from "../../../domain/planting/fact.ts";

/**
 * Returns the reference of a site of which the evidence has only the names, as that of verified sessions. Names that are too
 * long for a reference are replaced by their hash.
 */
export const siteReferenceOf = (source: string, names: string): string => {
  const written = `${source}/${names}`;
  const isShort = reference().safeParse(written).success;
  return isShort ? written : `${source}/${hash("sha256", names, "hex")}`;
};
