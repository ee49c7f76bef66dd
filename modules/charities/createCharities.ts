import { LRUCache } from "lru-cache";
import type { DatabasePool } from "slonik";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { Config } from "../../runtime/config/config.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { OutageError } from "../../runtime/errors.rules.ts";
import { createCatalogue } from "./createCatalogue.ts";
import type { CharityProvider } from "./provider.ts";
import { CharityProviderError } from "./provider.ts";
import { changeApi } from "./remote/change.ts";
import { createRemoteProvider } from "./remote/createRemoteProvider.ts";
import type {
  FoundCharities,
  RemoteApi,
  RemoteProviderName,
} from "./remote/createRemoteProvider.ts";
import { everyOrgApi } from "./remote/everyOrg.ts";
import type { StartTimeout } from "./remote/fetchJson.ts";
import { pledgeApi } from "./remote/pledge.ts";

/** The charity providers of this deployment. */
export type Charities = {
  /**
   * Returns a provider for an account.
   * @throws OutageError if the settings have no API key of it
   */
  readonly named: (name: CharityProviderName, accountId: string) => CharityProvider;
};

/** API keys of the remote providers; null if the key is not set. */
export type CharitySettings = {
  readonly everyorg: { readonly apiKey: string } | null;
  readonly change: { readonly publicKey: string; readonly secretKey: string } | null;
  readonly pledge: { readonly apiKey: string } | null;
  /** The URL of a server that serves each API below the provider's name, for tests. */
  readonly apiBase?: string | undefined;
};

export const readCharitySettings = ({
  EVERYORG_API_KEY: everyOrgKey,
  CHANGE_PUBLIC_KEY: publicKey,
  CHANGE_SECRET_KEY: secretKey,
  PLEDGE_API_KEY: pledgeKey,
  CHARITY_API_BASE: apiBase,
}: Config): CharitySettings => ({
  everyorg: everyOrgKey === undefined ? null : { apiKey: everyOrgKey },
  change: publicKey === undefined || secretKey === undefined ? null : { publicKey, secretKey },
  pledge: pledgeKey === undefined ? null : { apiKey: pledgeKey },
  apiBase,
});

const API_URLS: Readonly<Record<RemoteProviderName, string>> = {
  everyorg: "https://partners.every.org/v0.2",
  change: "https://api.getchange.io/api/v1",
  pledge: "https://api.pledge.to/v1",
};

const apiUrlOf = ({ apiBase }: CharitySettings, name: RemoteProviderName): string =>
  apiBase === undefined ? API_URLS[name] : `${apiBase}/${name}`;

/** Two attempts and the delay between them stay within the five seconds that a client waits. */
const TIMEOUT_MS = 1500;

/** The charities of remote providers that a process remembers, for a day. A text has at most 10,000 characters. */
const REMEMBERED_CHARACTERS = 8_000_000;

export const createCharities = ({
  db,
  searches = db,
  clock,
  settings,
  startTimeout = () => AbortSignal.timeout(TIMEOUT_MS),
}: {
  readonly db: DatabasePool;
  /** Connections for searches of the catalogue; needed only by programs that serve searches. */
  readonly searches?: DatabasePool;
  readonly clock: Clock;
  readonly settings: CharitySettings;
  readonly startTimeout?: StartTimeout;
}): Charities => {
  const catalogue = createCatalogue({ db, searches });
  const found: FoundCharities = new LRUCache({
    ttl: DAY_MS,
    ttlResolution: 0,
    perf: { now: () => clock.now().getTime() },
    maxSize: REMEMBERED_CHARACTERS,
    sizeCalculation: (charity) => JSON.stringify(charity).length,
  });
  const { everyorg, change, pledge } = settings;
  const apis: Record<RemoteProviderName, (url: string, accountId: string) => RemoteApi | null> = {
    everyorg: (url, accountId) => everyorg && everyOrgApi(url, everyorg, db, accountId),
    change: (url) => change && changeApi(url, change),
    pledge: (url) => pledge && pledgeApi(url, pledge),
  };
  return {
    named: (name, accountId) => {
      if (name === "catalogue") {
        return catalogue;
      }
      const api = apis[name](apiUrlOf(settings, name), accountId);
      if (api === null) {
        throw new OutageError("charity search failed", {
          cause: new CharityProviderError(`${name}: its API key is not set`),
        });
      }
      return createRemoteProvider(api, { found, startTimeout });
    },
  };
};
