/** The focus after a navigation: the `<h1>` of the new screen, also if it is loaded later, unless the operator moved the focus meanwhile. */
import { onNavigated } from './router.tsx'

const PATIENCE_MS = 5_000

let navigatedAt = Number.NEGATIVE_INFINITY

const isFree = (): boolean => {
  const { activeElement } = document
  return activeElement === null || activeElement === document.body || activeElement.matches('h1, main')
}

const focusHeading = (): void => document.querySelector<HTMLElement>('h1')?.focus()

export const focusAfterNavigation = (): (() => void) =>
  onNavigated(() => {
    navigatedAt = performance.now()
    focusHeading()
  })

/** Called when a heading appears, or when a layer closes. */
export function focusNewHeading(): void {
  if (performance.now() - navigatedAt < PATIENCE_MS && isFree()) focusHeading()
}
