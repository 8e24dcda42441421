/**
 * Keys. A control with `data-key="e"` is clicked by the key `e`; actions of modules name their key; screens are opened by `g` and a letter.
 *
 * - Single keys do nothing in fields, menus and dialogs, and can be disabled.
 * - Keys of modules with `Shift` have an effect everywhere. They precede the layers of the page, which `Esc` closes.
 */

import { startAction } from '../components/actions.tsx'
import { copy } from '../components/base/button.tsx'
import { notify } from '../data/notices.ts'
import { createStore } from '../data/store.ts'
import { current, focusedRow } from '../routing/current.ts'
import { pathOf } from '../routing/links.ts'
import { actionsOf, globalKeys, screens } from '../routing/registry.ts'
import { go } from '../routing/router.tsx'
import { text } from './text.ts'

const SEQUENCE_MS = 1_500
const STORED = 'tenantry-single-keys'

export const paletteStore = createStore(false)
export const helpStore = createStore(false)
export const singleKeysStore = createStore(localStorage.getItem(STORED) !== 'off')

export function setSingleKeys(isOn: boolean): void {
  if (isOn) localStorage.removeItem(STORED)
  else localStorage.setItem(STORED, 'off')
  singleKeysStore.set(isOn)
}

/** Keys of the console itself, with their texts, for the help. */
export const KEYS: Readonly<Record<string, { readonly title: string; readonly run: () => unknown }>> = {
  '?': { title: text.help, run: () => helpStore.set(true) },
  '/': { title: text.search, run: () => focus('[data-search]') },
  j: { title: text.nextRow, run: () => moveRow(1) },
  k: { title: text.previousRow, run: () => moveRow(-1) },
  o: { title: text.openPanel, run: () => clickInRow('[data-open]') },
  x: { title: text.selectRow, run: () => clickInRow('input[type=checkbox]') },
  '.': {
    title: text.actions,
    run: () => clickInRow('.cell-menu button') || click('.page-actions [aria-haspopup=menu]'),
  },
  u: { title: text.undo, run: () => click('[data-undo]') },
  y: { title: text.copyAddress, run: () => copy(location.href).then(() => notify({ text: text.copied })) },
}

export const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent)

export function listenToKeys(): () => void {
  let prefixUntil = 0
  const onKey = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.isComposing) return
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === 'k') {
      event.preventDefault()
      paletteStore.set(!paletteStore.get())
      return
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !singleKeysStore.get() || isTyping(event)) return
    const isAfterPrefix = performance.now() < prefixUntil
    prefixUntil = 0
    if (isAfterPrefix ? openScreen(event.key) : runKey(event.key)) event.preventDefault()
    else if (event.key === 'g') prefixUntil = performance.now() + SEQUENCE_MS
  }
  addEventListener('keydown', onGlobalKey, { capture: true })
  addEventListener('keydown', onKey)
  return () => {
    removeEventListener('keydown', onGlobalKey, { capture: true })
    removeEventListener('keydown', onKey)
  }
}

function onGlobalKey(event: KeyboardEvent): void {
  if (!event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return
  const found = globalKeys().find(({ key }) => key === event.key)
  if (!found) return
  event.preventDefault()
  event.stopPropagation()
  void found.run()
}

/** Whether a key belongs to a field, or to a layer above the page. */
function isTyping({ target }: KeyboardEvent): boolean {
  const element = target as HTMLElement
  if (element.closest?.('[role=menu], [popover]') || document.querySelector('.dialog, .palette')) return true
  return element.matches?.('textarea, select, input:not([type=checkbox]), [contenteditable]') ?? false
}

function openScreen(key: string): boolean {
  const screen = key === 'h' ? { path: '/' } : screens().find((one) => one.key === key)
  if (screen) go(pathOf(screen))
  return screen !== undefined
}

/** An action of the current object wins, then a control of the page, then the console. */
function runKey(key: string): boolean {
  const present = current()
  const action = present && actionsOf(present.kind, present.object).find((one) => one.key === key)
  if (action) {
    void startAction(action, present.object)
    return true
  }
  if (/^[\w+-]$/.test(key) && click(`[data-key="${key}"]`)) return true
  const own = KEYS[key]
  own?.run()
  return own !== undefined
}

/** Clicks the first shown control, in the panel first. */
function click(selector: string): boolean {
  const found = [...document.querySelectorAll<HTMLElement>(selector)].filter((element) => element.offsetParent !== null)
  const control = found.find((element) => element.closest('.panel')) ?? found[0]
  control?.click()
  return control !== undefined
}

function focus(selector: string): boolean {
  const field = document.querySelector<HTMLInputElement>(selector)
  field?.focus()
  field?.select()
  return field !== null
}

function clickInRow(selector: string): boolean {
  const control = focusedRow()?.querySelector<HTMLElement>(selector)
  control?.focus()
  control?.click()
  return control !== undefined && control !== null
}

function moveRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLTableRowElement>('main .table-scroll tbody tr')]
  const from = rows.indexOf(focusedRow() as HTMLTableRowElement)
  const next = from < 0 ? rows[0] : rows[from + step]
  const control = next?.querySelector<HTMLElement>('th a') ?? next?.querySelector<HTMLElement>('th button, td input')
  control?.focus()
}
