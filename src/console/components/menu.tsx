/**
 * Menus. All triggers of the page share one popup.
 *
 * - The widget is loaded when the browser is idle, or at the first press. Until then a trigger is a plain button with the same look.
 * - Plain buttons are replaced between two presses: a button that is replaced while it is pressed receives no click.
 */
import { type ReactNode, useId } from 'react'
import { load } from '../data/load.ts'
import { createStore, useStore } from '../data/store.ts'
import { Icon } from './base/icon.tsx'
import type { MenuEntry } from './menu-entry.ts'

interface MenuTriggerProps {
  readonly label: string
  readonly entries: readonly MenuEntry[]
  /** Default: three dots. */
  readonly children?: ReactNode
}

/** Between the end of a press and its click. */
const CLICK_MS = 300

const widgetStore = createStore<typeof import('./menu-popup.tsx') | undefined>(undefined)
let loading: Promise<void> | undefined
let press: Promise<unknown> | undefined

addEventListener(
  'pointerdown',
  () => {
    const ended = new AbortController()
    const own = new Promise<void>((resolve) => {
      const listen = (event: string, run: () => void) =>
        addEventListener(event, run, { capture: true, signal: ended.signal })
      // After the handlers of the click.
      listen('click', () => setTimeout(resolve))
      listen('pointercancel', resolve)
      listen('pointerup', () => setTimeout(resolve, CLICK_MS))
    }).then(() => {
      ended.abort()
      if (press === own) press = undefined
    })
    press = own
  },
  { capture: true },
)

/** Replaces the plain buttons by triggers. The focus stays. */
export function loadMenus(): Promise<void> {
  loading ??= loadWidget().catch((error) => {
    loading = undefined
    throw error
  })
  return loading
}

async function loadWidget(): Promise<void> {
  const { Trigger, MenuPopup } = await load(() => import('./menu-popup.tsx'))
  while (press) await press
  const focusedId = document.activeElement?.id
  widgetStore.set({ Trigger, MenuPopup })
  await new Promise(requestAnimationFrame)
  if (focusedId && document.activeElement === document.body) document.getElementById(focusedId)?.focus()
}

let wanted: string | undefined

/** Opens the menu of the button that was clicked last, once. */
async function openMenu(id: string): Promise<void> {
  wanted = id
  await loadMenus()
  if (wanted === undefined) return
  const trigger = document.getElementById(wanted)
  wanted = undefined
  trigger?.focus()
  trigger?.click()
}

/** @example <MenuTrigger label={text.actionsOf(tenant.name)} entries={entries} /> */
export function MenuTrigger({ label, entries, children }: MenuTriggerProps) {
  const widget = useStore(widgetStore)
  const id = useId()
  const shared = {
    id,
    className: children ? 'button' : 'icon-button',
    'aria-label': children ? undefined : label,
    children: children ?? <Icon name="more" />,
  }
  if (widget) return <widget.Trigger {...shared} entries={entries} />
  return (
    <button type="button" {...shared} aria-haspopup="menu" aria-expanded={false} onClick={() => void openMenu(id)} />
  )
}

/** The popup of all menus: mounted once, in the shell. */
export function MenuHost() {
  const widget = useStore(widgetStore)
  return widget ? <widget.MenuPopup /> : null
}
