/** Where the time comes from; tests bring their own. */
export type Clock = { readonly now: () => Date };

export const systemClock: Clock = { now: () => new Date() };
