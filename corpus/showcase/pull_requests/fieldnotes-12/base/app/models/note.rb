class Note < ApplicationRecord
  belongs_to :user
  has_many :observations, dependent: :destroy
  has_and_belongs_to_many :tags

  validates :title, presence: true, length: { maximum: 120 }
  validates :walked_on, presence: true

  def photos
    observations.select(&:photo_url)
  end
end
