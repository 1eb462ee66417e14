// Submits a form when one of its fields changes; every page works without this. The whole state stays in the address.
const FOCUS = "crb.focus";

for (const form of document.querySelectorAll("form[data-submit-on-change]")) {
  const beta = form.querySelector("#beta");
  beta?.addEventListener("input", () => {
    beta.value = String(Math.round(Number(beta.value) * 20) / 20);
    form.querySelector("#beta-value").textContent = beta.value;
  });
  form.addEventListener("change", (event) => {
    try {
      sessionStorage.setItem(FOCUS, JSON.stringify({ id: event.target.id, y: window.scrollY }));
    } catch {
      // Without storage the page begins at its top.
    }
    form.requestSubmit();
  });
  form.addEventListener("submit", () => {
    // Defaults stay out of the address.
    if (beta?.value === "1") beta.disabled = true;
    const basis = form.querySelector("#basis-grounded");
    if (basis?.checked) basis.disabled = true;
  });
  for (const button of form.querySelectorAll("button[type=submit]")) button.classList.add("said");
}
// A page that comes back from the browser's cache has its fields again, as its address says and not as they were left.
window.addEventListener("pageshow", (event) => {
  for (const field of document.querySelectorAll("#beta, #basis-grounded")) field.disabled = false;
  if (event.persisted) for (const form of document.forms) form.reset();
});

try {
  const { id, y } = JSON.parse(sessionStorage.getItem(FOCUS) ?? "{}");
  sessionStorage.removeItem(FOCUS);
  const field = id ? document.getElementById(id) : null;
  const closed = field?.closest("details");
  if (closed) closed.open = true;
  field?.focus({ preventScroll: true });
  if (y) window.scrollTo(0, y);
} catch {
  // See above.
}

// A reason that is open goes away with Escape, and comes again when its value is left and met anew.
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const each of document.querySelectorAll(".why:hover, .why:focus")) each.classList.add("dismissed");
});
for (const left of ["focusout", "mouseout"]) {
  addEventListener(left, (event) => {
    const why = event.target.closest?.(".why");
    if (why && !why.contains(event.relatedTarget)) why.classList.remove("dismissed");
  });
}
