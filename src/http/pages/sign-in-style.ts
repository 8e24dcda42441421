/** The style of the sign-in page, light and dark. Text has a contrast of 4.5 to 1, field borders 3 to 1 (WCAG 2.2, AA). */
export const SIGN_IN_STYLE = `
:root {
  color-scheme: light dark;
  --ground: #f4f5fa; --glow: #e0e3ff; --card: #ffffff; --edge: #e3e5ee;
  --text: #161a2b; --soft: #565c74; --field: #ffffff; --field-edge: #868ca6;
  --accent: #4338ca; --accent-hover: #3730a3; --on-accent: #ffffff; --ring: #4338ca4d;
  --error: #b4232f; --error-ground: #fdeeef;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d0f18; --glow: #23224f; --card: #161926; --edge: #272b3d;
    --text: #eceef8; --soft: #a3a9c2; --field: #0f121d; --field-edge: #6a7191;
    --accent: #a5b4fc; --accent-hover: #c7d2fe; --on-accent: #14163a; --ring: #a5b4fc59;
    --error: #ff9ba3; --error-ground: #3a1a21;
  }
}
*, *::before, *::after { box-sizing: border-box }
body {
  margin: 0; min-height: 100vh; min-height: 100dvh; display: grid; place-items: center; padding: 1.5rem;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  color: var(--text); background: radial-gradient(60rem 36rem at 50% -8rem, var(--glow), transparent 70%) var(--ground);
}
main {
  width: 100%; max-width: 25rem; padding: 2.25rem 2rem 1.75rem; background: var(--card);
  border: 1px solid var(--edge); border-radius: 1.125rem; box-shadow: 0 1px 2px #0a0d1a0f, 0 1.25rem 3rem -1rem #0a0d1a33;
}
.mark { width: 3rem; height: 3rem }
.mark svg { display: block }
h1 { margin: 1.25rem 0 0; font-size: 1.5rem; line-height: 1.25; letter-spacing: -.015em; overflow-wrap: anywhere }
.lead { margin: .375rem 0 1.75rem; color: var(--soft) }
label { display: block; margin-bottom: .375rem; font-size: .875rem; font-weight: 600 }
input {
  display: block; width: 100%; height: 2.875rem; padding: 0 .875rem; font: inherit; color: inherit;
  background: var(--field); border: 1px solid var(--field-edge); border-radius: .625rem;
}
input:focus-visible { outline: none; border-color: var(--accent); box-shadow: 0 0 0 3px var(--ring) }
input[aria-invalid] { border-color: var(--error) }
.error { margin: .625rem 0 0; padding: .5rem .75rem; font-size: .875rem; border-radius: .5rem;
  color: var(--error); background: var(--error-ground); overflow-wrap: anywhere }
.error:empty { margin: 0; padding: 0 }
button {
  display: flex; align-items: center; justify-content: center; gap: .625rem; width: 100%; height: 2.875rem;
  margin-top: 1rem; font: inherit; font-weight: 600; color: var(--on-accent); background: var(--accent);
  border: 0; border-radius: .625rem; cursor: pointer; transition: background-color .12s;
}
button:hover { background: var(--accent-hover) }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 3px }
.spinner { display: none; width: 1rem; height: 1rem; border: 2px solid; border-right-color: transparent; border-radius: 50% }
[aria-busy] button { cursor: progress }
[aria-busy] .spinner { display: block; animation: turn .8s linear infinite }
@keyframes turn { to { transform: rotate(1turn) } }
.status { min-height: 1.5rem; margin: .5rem 0 0; font-size: .875rem; text-align: center; color: var(--soft) }
.note { margin: .5rem 0 0; padding-top: 1rem; font-size: .8125rem; color: var(--soft); border-top: 1px solid var(--edge) }
@media (prefers-reduced-motion: reduce) { .spinner { animation: none !important } button { transition: none } }
@media (forced-colors: active) { input:focus-visible, button:focus-visible { outline: 3px solid Highlight } }
`
