class Observation < ApplicationRecord
  belongs_to :note

  validates :species, presence: true
  validates :count, numericality: { greater_than: 0 }
end
