/** The element inside `<main>` that contains menus, dialogs and toasts: content outside of landmarks is hard to reach for screen readers. */
export const layers = (): HTMLElement => document.getElementById('layers') ?? document.body
