import type { CommonQueryMethods, DatabasePool } from "slonik";
import { waitForPermit } from "../../db/rateLimits.ts";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { createCatalogue } from "./createCatalogue.ts";
import type { CharityProvider, RemoteCharityProvider } from "./provider.ts";
import { CharityProviderError } from "./provider.ts";
import { createChange } from "./remote/createChange.ts";
import { createEveryOrg } from "./remote/createEveryOrg.ts";
import { createPledge } from "./remote/createPledge.ts";
import type { UnusableHits } from "./remote/readHits.ts";
import type { StartTimeout } from "./remote/fetchJson.ts";
import { withDetailsCache } from "./remote/withDetailsCache.ts";
import type { Config } from "../../runtime/config/config.ts";
import { getAccount } from "../accounts/getAccount.ts";

/** The charity providers of this deployment. */
export type Charities = {
  /** Returns a provider for an account; every method of one without an API key in the settings fails. */
  readonly named: (name: CharityProviderName, accountId: string) => CharityProvider;
};

/** API keys and base URLs of the remote providers; null if the key is not set. */
export type CharitySettings = {
  readonly everyorg: { readonly apiKey: string; readonly apiBase: string } | null;
  readonly change: {
    readonly publicKey: string;
    readonly secretKey: string;
    readonly apiBase: string;
  } | null;
  readonly pledge: { readonly apiKey: string; readonly apiBase: string } | null;
};

/** Returns the settings of the charity providers that have an API key in the configuration. */
export const readCharitySettings = (config: Config): CharitySettings => ({
  everyorg:
    config.EVERYORG_API_KEY === undefined
      ? null
      : { apiKey: config.EVERYORG_API_KEY, apiBase: config.EVERYORG_API_BASE },
  change:
    config.CHANGE_PUBLIC_KEY === undefined || config.CHANGE_SECRET_KEY === undefined
      ? null
      : {
          publicKey: config.CHANGE_PUBLIC_KEY,
          secretKey: config.CHANGE_SECRET_KEY,
          apiBase: config.CHANGE_API_BASE,
        },
  pledge:
    config.PLEDGE_API_KEY === undefined
      ? null
      : { apiKey: config.PLEDGE_API_KEY, apiBase: config.PLEDGE_API_BASE },
});

/** Two attempts and the delay between them stay within the five seconds that a client waits. */
const TIMEOUT_MS = 1500;

const createUnconfigured = (name: CharityProviderName): CharityProvider => {
  const fail = (): Promise<never> =>
    Promise.reject(new CharityProviderError(`${name}: its API key is not set`));
  return {
    name,
    search: fail,
    findByEin: fail,
    findById: fail,
    local: { find: fail, isComplete: true },
  };
};

export const createCharities = ({
  db,
  searches = db,
  clock,
  settings: { everyorg, change, pledge },
  startTimeout = () => AbortSignal.timeout(TIMEOUT_MS),
  onUnusable = () => undefined,
}: {
  readonly db: DatabasePool;
  /** Connections for searches of the catalogue; needed only by programs that serve searches. */
  readonly searches?: DatabasePool;
  readonly clock: Clock;
  readonly settings: CharitySettings;
  readonly startTimeout?: StartTimeout;
  /** Called after each remote search whose response has records that cannot be used. */
  readonly onUnusable?: (unusable: UnusableHits) => void;
}): Charities => {
  const remote = (
    name: CharityProviderName,
    provider: RemoteCharityProvider | null,
  ): CharityProvider =>
    provider ? withDetailsCache(provider, { db, clock }) : createUnconfigured(name);
  const everyOrgOf = (accountId: string): CharityProvider =>
    remote(
      "everyorg",
      everyorg &&
        createEveryOrg(
          { ...everyorg, startTimeout, onUnusable },
          { accountId, waitForPermit: (bucket, limit) => waitForPermit(db, bucket, limit) },
        ),
    );
  const shared: Record<Exclude<CharityProviderName, "everyorg">, CharityProvider> = {
    catalogue: createCatalogue({ db, searches }),
    change: remote("change", change && createChange({ ...change, startTimeout, onUnusable })),
    pledge: remote("pledge", pledge && createPledge({ ...pledge, startTimeout, onUnusable })),
  };
  return {
    named: (name, accountId) => (name === "everyorg" ? everyOrgOf(accountId) : shared[name]),
  };
};

/** Returns the charity provider that an operator has chosen for an account. */
export const providerOf = async (
  { db, charities }: { readonly db: CommonQueryMethods; readonly charities: Charities },
  accountId: string,
): Promise<CharityProvider> => {
  const { charityProvider } = await getAccount(db, accountId);
  return charities.named(charityProvider, accountId);
};
