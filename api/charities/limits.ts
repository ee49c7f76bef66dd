/**
 * The limit of one key at each charity endpoint for which the contract has one, and at the store's searches, donations and
 * lists of donations.
 */
export const REQUESTS_PER_SECOND = 20;
