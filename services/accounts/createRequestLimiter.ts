import { LRUCache } from "lru-cache";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { AccountLimits, TokenBucket } from "../../domain/accounts/limits.ts";
import { BURST_SECONDS, limitsOf, refill } from "../../domain/accounts/limits.ts";

/** Keys and accounts beyond the most recent ones start with a full allowance again. */
const MAXIMUM_REMEMBERED = 10_000;

type AccountUse = { readonly bucket: TokenBucket; requests: number };

/** What the limiter decides about a request. `policy` and `state` are the values of the RateLimit headers. */
type Admission = {
  readonly policy: string;
  readonly state: string;
} & (
  | { readonly kind: "rejected"; readonly message: string }
  | { readonly kind: "admitted"; readonly leave: () => void }
);

export type RequestLimiter = {
  /**
   * Counts a request against the limits of its key and its account. Call `leave` when its response has ended.
   */
  readonly enter: (caller: Caller) => Admission;
  /**
   * Counts an admitted request as more than one, or as none with -1. The allowances may fall below zero; then requests are
   * rejected until they have refilled.
   * @returns the value of the RateLimit header
   */
  readonly charge: (caller: Caller, requests: number) => string;
};

const policyOf = ({ requestsPerSecond }: AccountLimits): string => {
  const burst = requestsPerSecond * BURST_SECONDS;
  return `"key";q=${burst};w=${BURST_SECONDS}, "account";q=${2 * burst};w=${BURST_SECONDS}`;
};

/** Names the allowance that runs out first, how much is left of it, and in how many seconds it is full again. */
const stateOf = (keyLeft: number, accountLeft: number, perSecond: number): string => {
  const [name, left, rate] =
    accountLeft < keyLeft ? ["account", accountLeft, 2 * perSecond] : ["key", keyLeft, perSecond];
  return `"${name}";r=${Math.max(left, 0)};t=${Math.ceil((rate * BURST_SECONDS - left) / rate)}`;
};

/**
 * Limits the requests of each key and each account in this process. The counters are in memory, so a request costs no
 * statement. They are not shared: N processes together allow N times as many requests.
 * @param nowMs a monotonic clock
 */
export const createRequestLimiter = ({
  defaults,
  nowMs = () => performance.now(),
}: {
  readonly defaults: Readonly<Record<Mode, AccountLimits>>;
  readonly nowMs?: () => number;
}): RequestLimiter => {
  const keys = new LRUCache<string, TokenBucket>({ max: MAXIMUM_REMEMBERED });
  const accounts = new LRUCache<string, AccountUse>({ max: MAXIMUM_REMEMBERED });
  const policies = new LRUCache<number, string>({ max: 1000 });

  const fullBucket = (): TokenBucket => ({ tokens: Infinity, filledAtMs: nowMs() });

  const bucketOf = (keyId: string): TokenBucket => {
    const known = keys.get(keyId) ?? fullBucket();
    keys.set(keyId, known);
    return known;
  };

  const useOf = ({ accountId, mode }: Caller): AccountUse => {
    const name = `${accountId}/${mode}`;
    const known = accounts.get(name);
    if (known) {
      return known;
    }
    const use = { bucket: fullBucket(), requests: 0 };
    accounts.set(name, use);
    return use;
  };

  return {
    enter: (caller) => {
      const limits = limitsOf(defaults[caller.mode], caller.limits);
      const perSecond = limits.requestsPerSecond;
      const now = nowMs();
      const bucket = bucketOf(caller.keyId);
      const use = useOf(caller);
      const keyLeft = refill(bucket, perSecond, now);
      const accountLeft = refill(use.bucket, 2 * perSecond, now);
      let policy = policies.get(perSecond);
      if (policy === undefined) {
        policy = policyOf(limits);
        policies.set(perSecond, policy);
      }
      const reject = (message: string): Admission => ({
        kind: "rejected",
        policy,
        state: stateOf(keyLeft, accountLeft, perSecond),
        message,
      });
      if (keyLeft < 1) {
        return reject(`too many requests: this key may send ${perSecond} a second`);
      }
      if (accountLeft < 1) {
        return reject(
          `too many requests: the account's ${caller.mode} keys together may send ${2 * perSecond} a second`,
        );
      }
      if (use.requests >= limits.concurrentRequests) {
        return reject(
          `too many requests at the same time: this account may have ${limits.concurrentRequests}`,
        );
      }
      bucket.tokens -= 1;
      use.bucket.tokens -= 1;
      use.requests += 1;
      return {
        kind: "admitted",
        policy,
        state: stateOf(keyLeft - 1, accountLeft - 1, perSecond),
        leave: () => {
          use.requests -= 1;
        },
      };
    },
    charge: (caller, requests) => {
      const { requestsPerSecond: perSecond } = limitsOf(defaults[caller.mode], caller.limits);
      const now = nowMs();
      const bucket = bucketOf(caller.keyId);
      const { bucket: accountBucket } = useOf(caller);
      refill(bucket, perSecond, now);
      refill(accountBucket, 2 * perSecond, now);
      bucket.tokens -= requests;
      accountBucket.tokens -= requests;
      return stateOf(Math.floor(bucket.tokens), Math.floor(accountBucket.tokens), perSecond);
    },
  };
};
