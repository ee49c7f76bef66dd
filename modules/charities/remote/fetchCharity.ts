import type { z } from "zod";
import type { Charity } from "../charities.rules.ts";
import { fetchJson } from "./fetchJson.ts";
import type { JsonRequest } from "./fetchJson.ts";
import { isPathSafe } from "./fields.ts";

/**
 * Fetches a charity by its id at the provider.
 * @param request.url the URL of the charity without its last segment, the id
 * @returns null if the provider has no charity with this id, or responds with another one
 * @throws CharityProviderError
 */
export const fetchCharity = async (
  {
    url,
    ...request
  }: Omit<JsonRequest<z.ZodType<Charity>>, "call" | "url"> & { readonly url: string },
  id: string,
  signal: AbortSignal,
): Promise<Charity | null> => {
  if (!isPathSafe(id)) {
    return null;
  }
  const charity = await fetchJson(
    { ...request, call: "details", url: new URL(`${url}/${id}`) },
    signal,
  );
  return charity?.nonprofitId === id ? charity : null;
};
