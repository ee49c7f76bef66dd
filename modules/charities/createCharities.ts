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
  OpenRemoteApi,
  RemoteProviderName,
} from "./remote/createRemoteProvider.ts";
import { everyOrgApi } from "./remote/everyOrg.ts";
import type { StartTimeout } from "./remote/fetchJson.ts";
import { pledgeApi } from "./remote/pledge.ts";

export type Charities = {
  /** @throws OutageError if the settings have no API key of it */
  readonly named: (name: CharityProviderName, accountId: string) => CharityProvider;
};

const KEYS = {
  catalogue: [],
  everyorg: ["EVERYORG_API_KEY"],
  change: ["CHANGE_PUBLIC_KEY", "CHANGE_SECRET_KEY"],
  pledge: ["PLEDGE_API_KEY"],
} as const satisfies Record<CharityProviderName, readonly (keyof Config)[]>;

/** The API keys of the remote providers, and for tests the URL of a server that has each API below the provider's name. */
export type CharityConfig = Partial<
  Pick<Config, (typeof KEYS)[RemoteProviderName][number] | "CHARITY_API_BASE">
>;

export const missingCharitySettings = (
  config: CharityConfig,
  provider: CharityProviderName,
): readonly string[] => KEYS[provider].filter((name) => config[name] === undefined);

const APIS: Readonly<
  Record<RemoteProviderName, { readonly url: string; readonly open: OpenRemoteApi }>
> = {
  everyorg: { url: "https://partners.every.org/v0.2", open: everyOrgApi },
  change: { url: "https://api.getchange.io/api/v1", open: changeApi },
  pledge: { url: "https://api.pledge.to/v1", open: pledgeApi },
};

/** Two attempts and the delay between them stay within the five seconds that a client waits. */
const TIMEOUT_MS = 1500;

/** The charities of remote providers that a process remembers, for a day. A text has at most 10,000 characters. */
const REMEMBERED_CHARACTERS = 8_000_000;

export const createCharities = ({
  db,
  searches = db,
  clock,
  config,
  startTimeout = () => AbortSignal.timeout(TIMEOUT_MS),
}: {
  readonly db: DatabasePool;
  /** Connections for searches of the catalogue; needed only by programs that serve searches. */
  readonly searches?: DatabasePool;
  readonly clock: Clock;
  readonly config: CharityConfig;
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
  const { CHARITY_API_BASE: apiBase } = config;
  return {
    named: (name, accountId) => {
      if (name === "catalogue") {
        return catalogue;
      }
      if (missingCharitySettings(config, name).length > 0) {
        throw new OutageError("charity search failed", {
          cause: new CharityProviderError(`${name}: its API key is not set`),
        });
      }
      const { url, open } = APIS[name];
      const api = open({
        url: apiBase === undefined ? url : `${apiBase}/${name}`,
        keys: KEYS[name].map((setting) => config[setting] ?? ""),
        db,
        accountId,
      });
      return createRemoteProvider(api, { found, startTimeout });
    },
  };
};
