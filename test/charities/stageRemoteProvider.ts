import type { ExecutionContext } from "ava";
import type { CharityProviderName } from "../../modules/accounts/accounts.rules.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import type { CharityProvider } from "../../modules/charities/provider.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { settingsOf } from "./donations/donationSetup.ts";
import type { ProviderDouble } from "./startProviderDouble.ts";
import { startProviderDouble } from "./startProviderDouble.ts";

export const never = new AbortController().signal;

export type RemoteName = Exclude<CharityProviderName, "catalogue">;

/** Starts a double of the remote providers, and creates the named provider with it. */
export const stage = async (
  t: ExecutionContext<DatabaseContext>,
  name: RemoteName,
  // No attempt times out unless its test says so, so a busy machine does not look like a silent provider.
  startTimeout = () => never,
): Promise<{
  readonly provider: CharityProvider;
  /** The provider for another account. */
  readonly otherProvider: CharityProvider;
  readonly double: ProviderDouble;
  /** What was reported of records that cannot be used. */
  readonly unusable: unknown[];
  readonly clock: ReturnType<typeof createMovableClock>;
}> => {
  const double = await startProviderDouble();
  t.teardown(double.close);
  const clock = createMovableClock("2026-03-10T12:00:00.000Z");
  const unusable: unknown[] = [];
  const charities = createCharities({
    db: t.context.db,
    clock,
    // Every.org's rate limits are per API key.
    settings: settingsOf(double, `key-${crypto.randomUUID()}`),
    startTimeout,
    onUnusable: (hits) => unusable.push(hits),
  });
  return {
    provider: charities.named(name, "one"),
    otherProvider: charities.named(name, "another"),
    double,
    unusable,
    clock,
  };
};

export const query = { name: "tree", ein: null, page: 1, pageSize: 20 };
