/** Choices of the user, kept in this browser: theme, height of rows, usual columns of tables. */
import { createStore, type Store } from './store.ts'

export interface Choice<Value extends string> {
  readonly values: readonly Value[]
  readonly store: Store<Value>
  readonly choose: (value: Value) => void
}

/** A choice that styles depend on: an attribute of the root element. The first value is the default, without an attribute. */
export function attributeChoice<Value extends string>(
  name: string,
  values: readonly [Value, ...Value[]],
): Choice<Value> {
  const key = `tenantry-${name}`
  const stored = localStorage.getItem(key)
  const store = createStore<Value>(values.find((one) => one === stored) ?? values[0])
  const apply = () => {
    if (store.get() === values[0]) delete document.documentElement.dataset[name]
    else document.documentElement.dataset[name] = store.get()
  }
  apply()
  return {
    values,
    store,
    choose(value) {
      if (value === values[0]) localStorage.removeItem(key)
      else localStorage.setItem(key, value)
      store.set(value)
      apply()
    },
  }
}

const COLUMNS = 'tenantry-columns'

/** Names of the usual columns, separated by commas, by the name of the table. */
export const usualColumnsStore = createStore<Readonly<Record<string, string | undefined>>>(storedColumns())

function storedColumns(): Record<string, string> {
  try {
    const stored = Object.entries(JSON.parse(localStorage.getItem(COLUMNS) ?? '{}'))
    return Object.fromEntries(stored.map(([table, names]) => [table, String(names)]))
  } catch {
    return {}
  }
}

/** @param names undefined: the default columns */
export function setUsualColumns(table: string, names: string | undefined): void {
  const { [table]: _, ...others } = usualColumnsStore.get()
  const all = names === undefined ? others : { ...others, [table]: names }
  localStorage.setItem(COLUMNS, JSON.stringify(all))
  usualColumnsStore.set(all)
}
