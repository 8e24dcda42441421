/** The theme: that of the system, or the choice of the user, kept in this browser. */
import { createStore } from '../data/store.ts'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'tenantry-theme'

const isTheme = (value: string | null): value is Theme => value === 'light' || value === 'dark'
const stored = (): Theme => {
  const value = localStorage.getItem(KEY)
  return isTheme(value) ? value : 'system'
}

export const themeStore = createStore<Theme>(stored())

/** Runs before the first paint. */
export function applyTheme(theme: Theme = themeStore.get()): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme)
  themeStore.set(theme)
  applyTheme(theme)
}
