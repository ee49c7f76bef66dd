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
  StartTimeout,
} from "./remote/createRemoteProvider.ts";
import { everyOrgApi } from "./remote/everyOrg.ts";
import { pledgeApi } from "./remote/pledge.ts";

const REMOTE = {
  everyorg: {
    open: everyOrgApi,
    url: "https://partners.every.org/v0.2",
    keys: ["EVERYORG_API_KEY"],
  },
  change: {
    open: changeApi,
    url: "https://api.getchange.io/api/v1",
    keys: ["CHANGE_PUBLIC_KEY", "CHANGE_SECRET_KEY"],
  },
  pledge: { open: pledgeApi, url: "https://api.pledge.to/v1", keys: ["PLEDGE_API_KEY"] },
} as const satisfies Record<
  RemoteProviderName,
  { readonly open: OpenRemoteApi; readonly url: string; readonly keys: readonly (keyof Config)[] }
>;

/** The API keys of the remote providers, and for tests the URL of a server that has each API below the provider's name. */
export type CharityConfig = Partial<
  Pick<Config, (typeof REMOTE)[RemoteProviderName]["keys"][number] | "CHARITY_API_BASE">
>;

export const missingCharitySettings = (config: CharityConfig, provider: CharityProviderName) =>
  provider === "catalogue"
    ? []
    : REMOTE[provider].keys.filter((name) => config[name] === undefined);

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
}) => {
  const catalogue = createCatalogue(db, searches);
  const found: FoundCharities = new LRUCache({
    ttl: DAY_MS,
    ttlResolution: 0,
    perf: { now: () => clock.now().getTime() },
    maxSize: REMEMBERED_CHARACTERS,
    sizeCalculation: (charity) => JSON.stringify(charity).length,
  });
  return {
    /** @throws OutageError if the settings have no API key of it */
    named: (name: CharityProviderName, accountId: string): CharityProvider => {
      if (name === "catalogue") {
        return catalogue;
      }
      if (missingCharitySettings(config, name).length > 0) {
        throw new OutageError("charity search failed", {
          cause: new CharityProviderError(`${name}: its API key is not set`),
        });
      }
      const { url, open, keys } = REMOTE[name];
      const api = open({
        url: config.CHARITY_API_BASE === undefined ? url : `${config.CHARITY_API_BASE}/${name}`,
        keys: keys.map((setting) => config[setting] ?? ""),
        db,
        accountId,
      });
      return createRemoteProvider(api, found, startTimeout);
    },
  };
};

export type Charities = ReturnType<typeof createCharities>;
