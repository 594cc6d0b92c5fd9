// The frame of every view: the bar at the top, what the address names, the help, and the key that a guarded gateway
// asks for.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { CallPanel } from "./call.tsx";
import { ExampleHead } from "./example.tsx";
import { Help } from "./help.tsx";
import { useKeys } from "./keys.ts";
import { ListPage } from "./list.tsx";
import { AnswerError, keepOperatorKey, type PageData } from "./page-data.ts";
import { Data, usePlace } from "./place.ts";
import type { SavedView } from "../../src/page/view.ts";
import { clock } from "./format.ts";
import { labelOfId } from "./forest-model.ts";
import { forestPath, linkTo, useRoute, type Route } from "./route.ts";
import { RolloutHead } from "./rollout-head.tsx";
import { RolloutView } from "./rollout.tsx";
import { RowPage } from "./row.tsx";
import { TermNote } from "./term.tsx";
import { currentTheme, nextTheme, setTheme, type Theme } from "./theme.ts";

export function App({ data }: { readonly data: PageData }): JSX.Element {
  const route = useRoute();
  const [locked, setLocked] = useState(0);
  const [needsKey, setNeedsKey] = useState(false);
  const help = useRef<HTMLDialogElement>(null);
  const openHelp = (): void => help.current?.showModal();
  useKeys({ "?": openHelp });
  const shown = useSavedRoute(data, route);
  return (
    <Data.Provider value={data}>
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>("#main")?.focus();
        }}
      >
        Skip to content
      </a>
      <TopBar route={shown} saved={data.saved} onHelp={openHelp} />
      <main id="main" tabIndex={-1} class={`view-${shown.view}`}>
        {needsKey ? (
          <KeyForm
            onKey={() => {
              setNeedsKey(false);
              setLocked(locked + 1);
            }}
          />
        ) : (
          <View key={locked} route={shown} onLocked={() => setNeedsKey(true)} />
        )}
      </main>
      <Help dialog={help} />
      <TermNote />
    </Data.Provider>
  );
}

/** A saved page holds one rollout: every address that names none is that one's. */
function useSavedRoute(data: PageData, route: Route): Route {
  if (data.saved === null || (route.view !== "list" && route.place.source === "ledger")) return route;
  return {
    view: "forest",
    place: { source: "ledger", rollout: data.saved.rollout.line.rollout_id },
    params: route.params,
  };
}

function View({ route, onLocked }: { readonly route: Route; readonly onLocked: () => void }): JSX.Element {
  if (route.view === "list") {
    document.title = "Coppice";
    return <ListPage params={route.params} onLocked={onLocked} />;
  }
  return <PlaceView route={route} onLocked={onLocked} />;
}

function PlaceView({
  route,
  onLocked,
}: {
  readonly route: Exclude<Route, { view: "list" }>;
  readonly onLocked: () => void;
}): JSX.Element {
  const { state, error } = usePlace(route.place);
  const isLocked = error instanceof AnswerError && (error.status === 401 || error.status === 403);
  useEffect(() => {
    if (isLocked) onLocked();
  }, [isLocked]);
  useEffect(() => {
    document.title =
      route.place.source === "ledger" ? `${route.place.rollout} · Coppice` : "Worked example · Coppice";
  }, [route.place.rollout, route.place.source]);
  if (error !== null && state === null) return <p class="notice fault">{error.message}</p>;
  if (state === null)
    return (
      <p class="notice dim" aria-busy="true">
        Reading the rollout…
      </p>
    );
  switch (route.view) {
    case "forest": {
      const example = route.place.source !== "ledger";
      return (
        <RolloutView
          key={`${route.place.source} ${route.place.rollout}`}
          state={state}
          params={route.params}
          head={example ? <ExampleHead state={state} /> : <RolloutHead state={state} />}
        />
      );
    }
    case "call":
      return (
        <div class="page-scroll">
          <Trail route={route} here={labelOfId(state.model, route.callId)} />
          <CallPanel state={state} callId={route.callId} params={route.params} />
        </div>
      );
    case "row":
      return (
        <div class="page-scroll">
          <Trail route={route} here={`row ${route.index}`} />
          <RowPage state={state} index={route.index} params={route.params} />
        </div>
      );
  }
}

function Trail({
  route,
  here,
}: {
  readonly route: Exclude<Route, { view: "list" }>;
  readonly here: string;
}): JSX.Element {
  const { place } = route;
  const call = route.view === "call" ? { call: route.callId } : {};
  return (
    <nav class="trail" aria-label="Where this is">
      <a {...linkTo(forestPath(place, call))}>
        {place.source === "ledger"
          ? place.rollout
          : `worked example, compaction ${place.source === "example-on" ? "on" : "off"}`}
      </a>
      <span aria-hidden="true">/</span>
      <span>{here}</span>
    </nav>
  );
}

function TopBar({
  route,
  saved,
  onHelp,
}: {
  readonly route: Route;
  readonly saved: SavedView | null;
  readonly onHelp: () => void;
}): JSX.Element {
  const example = route.view !== "list" && route.place.source !== "ledger";
  return (
    <header class="top">
      <a class="brand" {...linkTo("#/")}>
        <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
          <path
            d="M16 29V17M16 24C10 22 8 17 8 8M16 24c6-2 8-7 8-16"
            fill="none"
            stroke="currentColor"
            stroke-width="3"
            stroke-linecap="round"
          />
          <circle cx="8" cy="6" r="3.4" fill="currentColor" />
          <circle cx="24" cy="6" r="3.4" fill="currentColor" />
          <circle cx="16" cy="14" r="3.4" fill="currentColor" />
        </svg>
        Coppice
      </a>
      {saved === null && (
        <nav aria-label="Pages">
          <a {...linkTo("#/")} aria-current={!example ? "page" : undefined}>
            Rollouts
          </a>
          <a {...linkTo("#/example/off")} aria-current={example ? "page" : undefined}>
            Worked example
          </a>
        </nav>
      )}
      {saved !== null && (
        <span class="saved-mark">
          saved {clock(saved.saved_at)} by {saved.product}
        </span>
      )}
      <span class="top-end">
        <ThemeButton />
        <button type="button" class="icon" onClick={onHelp} aria-label="Help: words and keys" title="Help  ?">
          ?
        </button>
      </span>
    </header>
  );
}

const THEME_SIGNS: Readonly<Record<Theme, string>> = { system: "◐", light: "☀", dark: "☾" };

function ThemeButton(): JSX.Element {
  const [theme, show] = useState<Theme>(currentTheme());
  const turn = (): void => {
    const next = nextTheme(theme);
    setTheme(next);
    show(next);
  };
  return (
    <button
      type="button"
      class="icon"
      onClick={turn}
      aria-label={`Colours: ${theme}. Change`}
      title={`Colours: ${theme}`}
    >
      {THEME_SIGNS[theme]}
    </button>
  );
}

function KeyForm({ onKey }: { readonly onKey: () => void }): JSX.Element {
  const [key, setKey] = useState("");
  return (
    <form
      class="welcome"
      onSubmit={(event) => {
        event.preventDefault();
        keepOperatorKey(key.trim());
        onKey();
      }}
    >
      <h1>This gateway is locked</h1>
      <p>Prompts and answers are for operators. The key stays in this tab.</p>
      <label>
        Operator key{" "}
        <input
          type="password"
          autoComplete="off"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="button strong">
        Open
      </button>
    </form>
  );
}
