/** Never behind a proxy. Node compares addresses, gRPC networks, and both the names. */
const THIS_MACHINE = "localhost,127.0.0.1,127.0.0.0/8,::1,[::1]";

const isHttpUrl = (value: string): boolean => /^https?:\/\//u.test(value) && URL.canParse(value);

/** Returns a variable in either case; as in curl, the lower case wins. An empty one is not set. */
const readEither = (env: NodeJS.ProcessEnv, name: string): string | undefined =>
  [env[name.toLowerCase()], env[name]].find((value) => value !== undefined && value !== "");

/**
 * Makes all libraries read the same proxies: each reads the variables in its own way.
 * @returns the variables as they are now, and the names of those that are ignored because they name no HTTP proxy
 */
export const alignProxyVariables = (
  env: NodeJS.ProcessEnv = process.env,
): {
  readonly proxies: Readonly<Record<"HTTP_PROXY" | "HTTPS_PROXY" | "NO_PROXY", string | undefined>>;
  readonly ignored: readonly string[];
} => {
  const ignored: string[] = [];
  const readProxy = (name: string): string | undefined => {
    const value = readEither(env, name);
    if (value !== undefined && !isHttpUrl(value)) {
      ignored.push(name);
      return undefined;
    }
    return value;
  };
  const forAll = readProxy("ALL_PROXY");
  const exceptions = [readEither(env, "NO_PROXY"), THIS_MACHINE].filter((value) => value);
  const aligned = {
    HTTP_PROXY: readProxy("HTTP_PROXY") ?? forAll,
    HTTPS_PROXY: readProxy("HTTPS_PROXY") ?? forAll,
    ALL_PROXY: undefined,
    NO_PROXY: exceptions.join(","),
  };
  for (const [name, value] of Object.entries(aligned)) {
    for (const spelling of [name, name.toLowerCase()]) {
      if (value === undefined) {
        delete env[spelling];
      } else {
        env[spelling] = value;
      }
    }
  }
  return { proxies: aligned, ignored };
};
