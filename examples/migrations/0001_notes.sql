-- Tables of a tenant in the examples. Each tenant has its own storage, so no column has its id.

-- up
create table notes (
  id integer generated always as identity primary key,
  title text not null,
  created_at timestamptz(3) not null default now()
);

-- down
drop table notes;
