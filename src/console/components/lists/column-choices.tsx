/** Entries of the menu of columns: which are shown, and their order, by pointer and by keys. */
import { type KeyboardEvent, useState } from 'react'
import { Button, IconButton } from '../base/button.tsx'
import { text } from '../base/text.ts'
import type { ColumnChoice } from './column-choice.ts'
import { type Column, columnsInOrder, movedColumn } from './columns.ts'

const focusFirst = (list: HTMLElement | null): void => list?.querySelector('input')?.focus()
const STEPS: Readonly<Record<string, 1 | -1>> = { ArrowUp: -1, ArrowDown: 1 }

interface ChoicesProps {
  readonly columns: readonly Column<unknown>[]
  readonly choice: ColumnChoice<unknown>
}

export default function Choices({ columns, choice: { shown, isChosen, choose } }: ChoicesProps) {
  const [status, setStatus] = useState('')
  const toggle = (column: Column<unknown>) => {
    const isShown = shown.includes(column)
    const order = columnsInOrder(columns, shown)
    choose(order.filter((one) => (one === column ? !isShown : shown.includes(one))))
  }
  const move = (column: Column<unknown>, step: 1 | -1) => {
    const next = movedColumn(shown, column, step)
    if (next === shown) return
    choose(next)
    setStatus(text.movedTo(column.title, next.indexOf(column) + 1))
  }
  const moveByKey = (event: KeyboardEvent, column: Column<unknown>) => {
    const step = STEPS[event.key]
    if (!event.altKey || !step || !shown.includes(column)) return
    event.preventDefault()
    move(column, step)
  }
  return (
    <>
      <ul ref={focusFirst}>
        {columnsInOrder(columns, shown)
          .slice(1)
          .map((column) => {
            const { key, title } = column
            const position = shown.indexOf(column)
            return (
              <li key={key} onKeyDown={(event) => moveByKey(event, column)}>
                <label>
                  <input
                    type="checkbox"
                    checked={position > 0}
                    aria-keyshortcuts="Alt+ArrowUp Alt+ArrowDown"
                    onChange={() => toggle(column)}
                  />
                  {title}
                </label>
                {position > 0 && (
                  <>
                    <IconButton
                      icon="up"
                      label={text.moveUp(title)}
                      aria-disabled={position === 1 || undefined}
                      onClick={() => move(column, -1)}
                    />
                    <IconButton
                      icon="down"
                      label={text.moveDown(title)}
                      aria-disabled={position === shown.length - 1 || undefined}
                      onClick={() => move(column, 1)}
                    />
                  </>
                )}
              </li>
            )
          })}
      </ul>
      <p className="hint">{text.moveHint}</p>
      <Button variant="quiet" {...(isChosen ? {} : { disabled: true })} onClick={() => choose(undefined)}>
        {text.resetColumns}
      </Button>
      <p className="hidden" role="status">
        {status}
      </p>
    </>
  )
}
