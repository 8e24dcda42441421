/** Metric and period of a screen, in the address. */
import type { ReactNode } from 'react'
import { ChoiceChips, FilterSelect } from '../../../console/components/lists/filters.tsx'
import { useSearch, useSetSearch } from '../../../console/routing/router.tsx'
import { text } from './text.ts'

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 14
export const LONGEST_DAYS = 90
const PERIODS = [DEFAULT_DAYS, 30, LONGEST_DAYS]
/** Counted for each tenant with guarded routes. */
const FIRST_KEY = 'requests'

/** The first day of a period that ends today. */
export const firstDay = (days: number): string => new Date(Date.now() - (days - 1) * DAY_MS).toISOString().slice(0, 10)

/** The metric of the address, or else a metric that has counts. @param keys metrics that have counts */
export const chosenKey = (key: string | undefined, keys: readonly string[]): string | undefined =>
  key ?? (keys.includes(FIRST_KEY) ? FIRST_KEY : keys[0])

export const keysOf = (rows: readonly { readonly key: string }[] = []): string[] =>
  [...new Set(rows.map(({ key }) => key))].toSorted()

interface PeriodProps {
  readonly chosen: string
  readonly keys: readonly string[]
  readonly children?: ReactNode
}

export function Period({ chosen, keys, children }: PeriodProps) {
  const { from, to } = useSearch('metrics.sums')
  const setSearch = useSetSearch()
  return (
    <div className="toolbar">
      <FilterSelect
        label={text.key}
        value={chosen}
        options={keys.map((key) => [key, key])}
        onChange={(key) => setSearch({ key })}
      />
      <ChoiceChips
        label={text.period}
        value={to === undefined ? (from ?? firstDay(DEFAULT_DAYS)) : undefined}
        choices={PERIODS.map((days) => ({ value: firstDay(days), title: text.days(days) }))}
        onChange={(day) => setSearch({ from: day === firstDay(DEFAULT_DAYS) ? undefined : day, to: undefined })}
      />
      {children}
    </div>
  )
}
