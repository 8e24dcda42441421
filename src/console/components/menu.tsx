/**
 * Menus. All triggers of the page share one popup.
 *
 * - The widget is loaded when the browser is idle, or at the first click. Until then a trigger is a plain button with the same look.
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

const widgetStore = createStore<typeof import('./menu-popup.tsx') | undefined>(undefined)

/** Replaces the plain buttons by triggers. The focus stays. */
export async function loadMenus(): Promise<void> {
  if (widgetStore.get()) return
  const { Trigger, MenuPopup } = await load(() => import('./menu-popup.tsx'))
  const focusedId = document.activeElement?.id
  widgetStore.set({ Trigger, MenuPopup })
  await new Promise(requestAnimationFrame)
  if (focusedId && document.activeElement === document.body) document.getElementById(focusedId)?.focus()
}

async function openMenu(id: string): Promise<void> {
  await loadMenus()
  const trigger = document.getElementById(id)
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
