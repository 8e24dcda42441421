/** A metric by day. Selected days are in the address. */
import { Chart } from '../../../console/components/chart/chart.tsx'
import { useSetSearch } from '../../../console/routing/router.tsx'
import { daysOf, type Sums } from './days.ts'
import { BYTES, text } from './text.ts'

export function DayChart({ sums }: { sums: Sums }) {
  const { key, total } = sums
  const setSearch = useSetSearch()
  const days = daysOf(sums)
  const max = Math.max(...days.map(({ value }) => value))
  const greatest = total > 0 ? days.find(({ value }) => value === max) : undefined
  return (
    <Chart
      caption={text.caption(key)}
      summary={text.summary(key, total, days.length, greatest)}
      lead={<strong>{text.total(key, total)}</strong>}
      starts={days.map(({ period }) => period)}
      step="day"
      series={[{ label: key, values: days.map(({ value }) => value) }]}
      format={(value) => text.value(key, value)}
      formatMark={(value) => text.scale(key, value)}
      isBinary={key === BYTES}
      onSelect={({ from, to }) => setSearch({ key, from: from.slice(0, 10), to: to.slice(0, 10) })}
    />
  )
}
