import type { z } from "zod";
import type { CharityProviderName } from "../../accounts/accounts.rules.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";
import { splitReadable } from "../../../runtime/splitReadable.ts";
import { CharityProviderError } from "../provider.ts";

/** Records of a search's response that cannot be used. */
export type UnusableHits = LeftOut & { readonly provider: CharityProviderName };

/**
 * Returns the usable records of a search's response.
 * @param onUnusable called if there are others
 * @throws CharityProviderError if there are records, and none can be used
 */
export const readHits = async <Schema extends z.ZodType>(
  provider: CharityProviderName,
  hits: readonly unknown[],
  schema: Schema,
  onUnusable: (unusable: UnusableHits) => void,
): Promise<readonly z.output<Schema>[]> => {
  const { readable, unreadable } = await splitReadable(hits, schema).catch((error: unknown) => {
    throw new CharityProviderError(`${provider}: search: unexpected response format`, {
      cause: error,
    });
  });
  if (unreadable.count > 0) {
    onUnusable({ provider, ...unreadable });
  }
  return readable;
};
