// <impact-card src="https://impact.example/dashboard/SLUG">: shows an organization's numbers on another site.
// Version 1. It sets no cookies, loads only the numbers and the logo, and needs no permission for inline styles.

const STYLE = `
:host{display:block;max-width:22rem;font:400 1rem/1.45 system-ui,sans-serif;color:#18231d;--shade:var(--impact-card-light)}
article{border:1px solid #dfdcd0;border-radius:12px;background:#fffefb;padding:1rem 1.15rem}
img{display:block;max-height:2.5rem;max-width:9rem;margin-bottom:.6rem}
p{margin:0}
.name{font-weight:650;font-size:.9375rem}
.number{font:600 2.1rem/1.15 ui-serif,Georgia,serif;color:var(--shade);overflow-wrap:anywhere}
.small{font-size:.8125rem}
a{color:var(--shade)}
@media (prefers-color-scheme:dark){:host{color:#e9efe9;--shade:var(--impact-card-dark)}article{border-color:#2a3731;background:#151e1a}}
`;

const TIMEOUT_MS = 10_000;
const COLOR = /^#[0-9a-f]{6}$/u;
const numbers = new Intl.NumberFormat("en-US");

const dollars = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });

const create = (name, properties, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};

const verifiedText = ({
  planted_and_verified: verified,
  planted_and_verified_simulated: simulated,
}) => {
  const text = `${numbers.format(verified)} planted and verified`;
  if (simulated === 0) {
    return text;
  }
  return simulated === verified
    ? `${text} (simulated)`
    : `${text} (${numbers.format(simulated)} of them simulated)`;
};

/** Lists what there is to show, the most important first. Hidden numbers are null. */
const listFigures = ({ trees, bottles, donations }) => {
  const ofTrees = {
    number: numbers.format(trees.total),
    label: `${trees.total === 1 ? "tree" : "trees"} registered, ${verifiedText(trees)}`,
  };
  const others = [];
  if (bottles?.total > 0) {
    const label = `ocean-bound ${bottles.total === 1 ? "bottle" : "bottles"} rescued`;
    others.push({ number: numbers.format(bottles.total), label });
  }
  if (donations?.count > 0) {
    const number = dollars.format(donations.amount_cents / 100);
    others.push({ number, label: "donated to charities" });
  }
  return trees.total > 0 || others.length === 0 ? [ofTrees, ...others] : others;
};

/** Returns the link if it is an http or https one, since the numbers come from elsewhere. */
const safeUrl = (given) => {
  const url = URL.canParse(given) ? new URL(given) : null;
  return url?.protocol === "https:" || url?.protocol === "http:" ? url.href : null;
};

const renderCard = (data, url) => {
  const logo = data.logo_url === null ? null : safeUrl(data.logo_url);
  const [headline, second] = listFigures(data);
  const lines = [
    create("p", { className: "name", textContent: data.name }),
    create("p", { className: "number", textContent: headline.number }),
    create("p", { className: "small", textContent: headline.label }),
  ];
  if (second !== undefined) {
    const textContent = `${second.number} ${second.label}`;
    lines.push(create("p", { className: "small", textContent }));
  }
  const link = create("a", {
    href: url,
    target: "_blank",
    rel: "noopener",
    textContent: "See the evidence",
  });
  const picture =
    logo === null ? [] : [create("img", { src: logo, alt: "", referrerPolicy: "no-referrer" })];
  return create("article", {}, ...picture, ...lines, create("p", { className: "small" }, link));
};

class ImpactCard extends HTMLElement {
  static observedAttributes = ["src"];

  attributeChangedCallback() {
    void this.load();
  }

  /** Until the numbers are there, and if they cannot be loaded, the element's own content is shown. */
  async load() {
    const url = safeUrl(this.getAttribute("src") ?? "");
    const root = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    root.replaceChildren(document.createElement("slot"));
    if (url === null) {
      return;
    }
    try {
      const response = await fetch(`${url}.json`, {
        credentials: "omit",
        referrerPolicy: "no-referrer",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      if (!response.ok) {
        throw new Error(`${response.status} ${response.url}`);
      }
      const data = await response.json();
      if (url !== safeUrl(this.getAttribute("src") ?? "")) {
        return;
      }
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(STYLE);
      root.adoptedStyleSheets = [sheet];
      for (const mode of ["light", "dark"]) {
        if (COLOR.test(data.colors[mode])) {
          this.style.setProperty(`--impact-card-${mode}`, data.colors[mode]);
        }
      }
      root.replaceChildren(renderCard(data, url));
      this.dispatchEvent(new CustomEvent("impact-card-load"));
    } catch (error) {
      this.dispatchEvent(new CustomEvent("impact-card-error", { detail: error }));
    }
  }
}

if (!customElements.get("impact-card")) {
  customElements.define("impact-card", ImpactCard);
}
