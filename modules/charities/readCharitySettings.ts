import type { Config } from "../../runtime/config/config.ts";
import type { CharitySettings } from "./createCharities.ts";

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
