/** The menu of a table's columns: which are shown, and their order. `Esc` and a click outside close it. */
import { type KeyboardEvent, useId, useState } from 'react'
import { Button, IconButton } from '../base/button.tsx'
import { text } from '../base/text.ts'
import type { ColumnChoice } from './column-choice.ts'
import { type Column, columnsInOrder, movedColumn } from './columns.ts'

interface ColumnMenuProps<Row> {
  readonly columns: readonly Column<Row>[]
  readonly choice: ColumnChoice<Row>
}

export function ColumnMenu<Row>(props: ColumnMenuProps<Row>) {
  const id = useId()
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <IconButton icon="columns" label={text.columns} popoverTarget={id} />
      <div
        id={id}
        popover="auto"
        className="menu column-menu"
        role="dialog"
        aria-label={text.columns}
        onToggle={({ newState }) => setOpen(newState === 'open')}
      >
        {isOpen && <Choices {...props} />}
      </div>
    </>
  )
}

const focusFirst = (list: HTMLElement | null): void => list?.querySelector('input')?.focus()
const STEPS: Readonly<Record<string, 1 | -1>> = { ArrowUp: -1, ArrowDown: 1 }

function Choices<Row>({ columns, choice: { shown, isChosen, choose } }: ColumnMenuProps<Row>) {
  const [status, setStatus] = useState('')
  const toggle = (column: Column<Row>) => {
    const isShown = shown.includes(column)
    const order = columnsInOrder(columns, shown)
    choose(order.filter((one) => (one === column ? !isShown : shown.includes(one))))
  }
  const move = (column: Column<Row>, step: 1 | -1) => {
    const next = movedColumn(shown, column, step)
    if (next === shown) return
    choose(next)
    setStatus(text.movedTo(column.title, next.indexOf(column) + 1))
  }
  const moveByKey = (event: KeyboardEvent, column: Column<Row>) => {
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
