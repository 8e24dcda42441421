/** Starts actions of modules, and shows their dialogs. */
import { type ComponentType, createElement } from 'react'
import { load } from '../data/load.ts'
import { notify } from '../data/notices.ts'
import { createStore, useStore } from '../data/store.ts'
import type { Action, ActionProps } from '../module.ts'
import { actionsOf } from '../routing/registry.ts'
import { Button } from './base/button.tsx'
import { text } from './base/text.ts'
import type { MenuEntry } from './menu-entry.ts'

interface Started {
  readonly view: ComponentType<ActionProps>
  readonly target: unknown
}

const startedStore = createStore<Started | undefined>(undefined)

/** Runs an action, or opens its dialog. The dialog is loaded first, so that it opens at once. */
export async function startAction(action: Action, target: unknown): Promise<void> {
  if (action.run) return action.run(target) as undefined
  try {
    const view = action.view && (await load(action.view)).default
    if (view) startedStore.set({ view, target })
  } catch (error) {
    notify({ text: action.title, detail: String(error), isError: true })
  }
}

/** Entries of the menu of an object: its permitted actions. */
export const menuEntriesOf = (kind: string, target: unknown): MenuEntry[] =>
  actionsOf(kind, target).map((action) => ({
    title: action.title,
    ...(action.isDestructive ? { isDestructive: true } : {}),
    ...(action.key ? { key: action.key } : {}),
    onSelect: () => startAction(action, target),
  }))

interface ObjectButtonsProps {
  readonly kind: string
  readonly object: unknown
  /** Name of the object for screen readers: a page can show several objects. */
  readonly name: string
}

/** Buttons of the actions that the page of an object shows. @example <ObjectButtons kind="tenant" object={tenant} name={tenant.name} /> */
export const ObjectButtons = ({ kind, object, name: ofObject }: ObjectButtonsProps) =>
  actionsOf(kind, object)
    .filter(({ isButton }) => isButton)
    .map((action) => (
      <Button key={action.name} onClick={() => startAction(action, object)}>
        {action.title}
        <span className="hidden"> {text.of(ofObject)}</span>
      </Button>
    ))

/** The dialog of the started action. The shell contains it. */
export function ActionHost() {
  const started = useStore(startedStore)
  const onClose = () => startedStore.set(undefined)
  return started ? createElement(started.view, { target: started.target, onClose }) : null
}
