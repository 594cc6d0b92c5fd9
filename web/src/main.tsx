// Starts the page: over the gateway that serves it, or over what was saved into this file.
import "./styles/base.css";
import "./styles/forest.css";
import "./styles/call.css";
import "./styles/list.css";
import { render } from "preact";
import { App } from "./app.tsx";
import { gatewayData, readSaved, savedData } from "./page-data.ts";
import { applyTheme } from "./theme.ts";

applyTheme();
const saved = readSaved();
const root = document.querySelector("#page");
if (root === null) throw new Error("the page has no place to stand in");
render(<App data={saved === null ? gatewayData() : savedData(saved)} />, root);
