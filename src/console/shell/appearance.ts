/** Look of the pages: the theme, and the height of rows. Entries for the menu of the account and for the palette. */
import { attributeChoice, type Choice } from '../data/personal.ts'
import { useStore } from '../data/store.ts'
import { text } from './text.ts'

const theme = attributeChoice('theme', ['system', 'light', 'dark'])
/** Rows have 32 or 40 px; for fingers, 44 px. */
const density = attributeChoice('density', ['compact', 'comfortable'])

export interface AppearanceEntry {
  readonly title: string
  readonly value: string
  readonly isChosen: boolean
  readonly choose: () => void
}

const entriesOf = <Value extends string>(
  title: string,
  titles: Readonly<Record<Value, string>>,
  { values, store, choose }: Choice<Value>,
): AppearanceEntry[] =>
  values.map((value) => ({
    title: `${title}: ${titles[value]}`,
    value: `${title} ${value}`,
    isChosen: value === store.get(),
    choose: () => choose(value),
  }))

export function useAppearance(): readonly AppearanceEntry[] {
  useStore(theme.store)
  useStore(density.store)
  return [...entriesOf(text.theme, text.themes, theme), ...entriesOf(text.density, text.densities, density)]
}
