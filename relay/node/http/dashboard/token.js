// The token of a node that can be reached from elsewhere. It is kept for this tab only, and sent to this node only.

import { byId } from "./dom.js";

const NAME = "relay.token";
let asking = null;

export const storedToken = () => sessionStorage.getItem(NAME) ?? "";

// Asks for a token in place of `refused`; all who need one wait for the same answer.
export function askToken(refused) {
  if (storedToken() !== refused) return Promise.resolve();
  asking ??= new Promise((resolve) => {
    const dialog = byId("ask-token");
    const input = byId("token");
    dialog.addEventListener(
      "close",
      () => {
        sessionStorage.setItem(NAME, input.value.trim());
        input.value = "";
        asking = null;
        resolve();
      },
      { once: true },
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.showModal();
  });
  return asking;
}
