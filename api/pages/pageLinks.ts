/** The URLs that a page links to. */
export type PageLinks = {
  /** The public base URL. */
  readonly baseUrl: string;
  /** Its path, with which links between pages start. */
  readonly root: string;
  /** The page's own URL, for previews and shared links. */
  readonly pageUrl: string;
};
